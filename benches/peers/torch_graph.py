"""Times PyTorch's CUDA graphs: one line in, one line out (nanoseconds for each).

"ready VERSION" first, or "absent REASON". Orders: "replay NODES TIMES" takes a burst of replays of a graph of so many
kernels into a drained stream, CPU time alone; "tokens TIMES" a token loop: fill_ of a captured input, replay of ten
kernels, item() of the output.
"""

import sys
import time


def main() -> None:
    try:
        import torch
    except ImportError as error:
        print(f"absent {error}", flush=True)
        return
    if not torch.cuda.is_available():
        print("absent no CUDA device", flush=True)
        return

    def capture(kernels):
        word = torch.zeros(1, dtype=torch.int32, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            word.add_(1)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(kernels):
                word.add_(1)
        return graph, word

    graphs = {}
    print(f"ready {torch.__version__}", flush=True)
    for line in sys.stdin:
        order, *numbers = line.split()
        nodes, times = (10, int(numbers[0])) if order == "tokens" else map(int, numbers)
        if nodes not in graphs:
            graphs[nodes] = capture(nodes)
            graphs[nodes][0].replay()
        graph, word = graphs[nodes]
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        if order == "tokens":
            for token in range(times):
                word.fill_(token)
                graph.replay()
                assert word.item() == token + 10
        else:
            for _ in range(times):
                graph.replay()
        print((time.perf_counter_ns() - start) / times, flush=True)


main()
