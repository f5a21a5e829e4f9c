"""What Strata adds to HTCondor: the provisioner of execution points, and the issuer of users' tokens."""
