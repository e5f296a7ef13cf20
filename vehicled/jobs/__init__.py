"""Work that runs many times: jobs in processes of this machine or of a cluster, and a file of their results."""
