//! A program that behaves as a chat bot does, without a network: it says who it
//! is and gives a sign of life every few seconds. SIGTERM ends it.

use std::{process, thread, time::Duration};

const VERSION: u32 = 1; // change it and commit: the next start prints the new one

fn main() {
    println!("rust-bot version {}, pid {}", VERSION, process::id());
    for tick in 1u64.. {
        thread::sleep(Duration::from_secs(5));
        println!("tick {}", tick);
    }
}
