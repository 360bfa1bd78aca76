//! Mbarriers, bulk copies and clusters: kernels with the words that the PTX manual makes of them.
//!
//! `record_gates.py` beside the file asks a GPU the same.

use cuforge_core::LaunchGeometry;
use cuforge_sim::{LaunchOptions, Memory, Program, launch, ptx::Module};

const GATES: &str = include_str!("../vectors/gates.txt");
const RECORDER: &str = include_str!("../vectors/record_gates.py");

/// What stands before each body: the text of the recorder, so that there is one.
fn head(cluster: u32) -> String {
    let (_, rest) = RECORDER.split_once("HEAD = \"\"\"").unwrap();
    let (head, _) = rest.split_once("\"\"\"").unwrap();
    let directive = if cluster > 1 { format!(" .reqnctapercluster {cluster}, 1, 1") } else { String::new() };
    head.replace("{cluster}", &directive).replace("{{", "{")
}

#[test]
fn kernels_around_mbarriers_and_clusters_give_the_words_of_the_manual_under_every_schedule() {
    let mut count = 0;
    for part in GATES.split("kernel ").skip(1) {
        let (line, rest) = part.split_once('\n').unwrap();
        let [name, cluster, blocks, threads] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let [cluster, blocks, threads] = [cluster, blocks, threads].map(|word| word.parse::<u32>().unwrap());
        let (body, words) = rest.split_once("\n= ").unwrap();
        let expected: Vec<u32> =
            words.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
        assert_eq!(expected.len(), (blocks * threads) as usize, "{name}");
        let text = format!("{}{body}\nret;\n}}\n", head(cluster));
        let kernel = Program::load(&Module::parse(&text).unwrap()).unwrap().kernel("k").unwrap();
        assert_eq!(kernel.unsupported().collect::<Vec<_>>(), [], "{name}");
        let geometry = LaunchGeometry { grid: [blocks, 1, 1], block: [threads, 1, 1], shared_bytes: 0 };
        for seed in 0..8 {
            let mut memory = Memory::new(1 << 16);
            let (target, source) = (memory.allocate(4096, 16).unwrap(), memory.allocate(4096, 16).unwrap());
            let input: Vec<u8> = (1000..2024u32).flat_map(u32::to_le_bytes).collect();
            memory.write(source, &input).unwrap();
            let params: Vec<u8> = [target, source].into_iter().flat_map(u64::to_le_bytes).collect();
            let options = LaunchOptions { seed, ..LaunchOptions::default() };
            let ended = launch(&kernel, &geometry, &params, &mut memory, &options);
            ended.unwrap_or_else(|fault| panic!("{name}, seed {seed}: {fault}\n{text}"));
            let mut bytes = vec![0; expected.len() * 4];
            memory.read(target, &mut bytes).unwrap();
            let got: Vec<u32> =
                bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
            assert_eq!(got, expected, "{name}, seed {seed}");
        }
        count += 1;
    }
    assert_eq!(count, 17, "kernels");
}
