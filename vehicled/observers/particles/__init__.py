"""The particle filter: a cloud of whole mechanism states, weighed by what instruments read.

    swarm = Swarm(four_bar.describe((2.0, 4.0, 3.0, 4.0)), 500, ["crank"])
    swarm.set_states(*four_bar.assemble(lengths, angles, branches))
    f = ParticleFilter(swarm, [AngularRate("crank", sigma=0.01)], noise=Noise(...), seed=1)
    f.step(6e-3, [reading])
    circular_mean(swarm.get_angles("crank"), f.weights)

Sequential importance resampling after Gordon, Salmond and Smith (1993); the arrangement for mechanisms, its
instruments and its noise follow the particle filter that the source built on Simbody (SimTKpf).
"""
