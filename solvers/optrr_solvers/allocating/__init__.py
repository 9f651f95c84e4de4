"""The reverse of design: the total ε is fixed, the error of a workload is to be small (design §3.7)."""
