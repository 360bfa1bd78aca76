// Values of other lanes of the warp.
