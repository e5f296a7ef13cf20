class UnscentedKF: pass
