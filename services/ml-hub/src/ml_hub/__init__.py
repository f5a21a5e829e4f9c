"""Model hub: a catalogue of machine-learning models over HTTP."""
