"""The site file: reading, checking and explaining it, and what is generated from the model of all its sections."""
