"""Where bytes come from: files, standard input and URLs."""
