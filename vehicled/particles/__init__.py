"""The particle filter: a cloud of whole mechanism states, weighted by the readings of instruments.

    mechanism, random = Mechanism.load("four_bar"), np.random.default_rng(1)
    swarm = Swarm(mechanism.description, 500, ["theta"])
    assemble(swarm, mechanism, random.uniform(-np.pi, np.pi, (1, 500)))
    noise = MotionNoise(motion=0.01, keeps_covariance=True)
    f = ParticleFilter(swarm, [RateInstrument("theta", sigma=0.01)], noise, random)
    f.step(6e-3, [reading])
    f.find_peak("theta")

`live` steps the filter to the time of each reading; `tracker` is the estimator of `vehicled particles`, on real
sensors.

Sequential importance resampling after Gordon, Salmond and Smith (1993); the arrangement for mechanisms, its
instruments and its noise follow the particle filter that the source built on Simbody (SimTKpf).
"""
