"""What a run changes or removes in a running site: shown, approved, drained before."""
