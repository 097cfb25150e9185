"""What is optimised: losses, problems, feasible sets, and the certificate of their gap."""
