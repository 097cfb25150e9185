"""What becomes of kernels: code that is emitted, kept, loaded and called."""
