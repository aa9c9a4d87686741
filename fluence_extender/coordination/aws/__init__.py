"""Just enough of AWS to ask one service with JSON: credentials, and signatures of version 4."""
