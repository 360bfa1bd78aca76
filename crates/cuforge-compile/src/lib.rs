//! CUDA C through NVRTC, and PTX, to module images; found, loaded and cached so that nothing is served wrong
