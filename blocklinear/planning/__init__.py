"""What a split and a training will take, estimated from a sample (docs/explanation/planning.md)."""
