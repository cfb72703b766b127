package app

// Shell is what came of a console command.
type Shell struct {
	Online  bool   // it ran beside the program, with the program's RAM
	Stdout  Output // what it wrote, kept apart
	Stderr  Output
	Exit    Exit  // of the shell; OOM when a process was killed for RAM meanwhile, whichever
	Program *Exit // the end of the program, when that came with the command's
	// Cut is why the command was ended with everything it had started, as the
	// end of a sentence: "the application was stopped"; no text when it ended by itself.
	Cut Text
}

// OutputMax is the bytes that are kept of each stream of a command.
const OutputMax = 64 << 10

// Output is one stream of a command.
type Output struct {
	Text    string // the beginning, valid UTF-8
	Dropped int64  // bytes of the rest
}
