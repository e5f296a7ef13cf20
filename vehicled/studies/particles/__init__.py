"""The particle filter: a cloud of whole mechanism states, weighted by the readings of instruments.

    swarm = Swarm(four_bar.describe(lengths), 500, ["crank"])
    swarm.set_states(*four_bar.assemble(lengths, angles, branches))
    noise = MotionNoise(motion=0.01, keeps_covariance=True)
    f = ParticleFilter(swarm, [RateInstrument("crank", sigma=0.01)], noise, np.random.default_rng(1))
    f.step(6e-3, [reading])
    f.find_peak("crank")

`assembly` moves particles of any other mechanism anywhere, `live` feeds the filter from a queue;
`tracker` is the estimator of `vehicled particles`, on real sensors.

Sequential importance resampling after Gordon, Salmond and Smith (1993); the arrangement for mechanisms, its
instruments and its noise follow the particle filter that the source built on Simbody (SimTKpf).
"""
