package screen

import "golang.org/x/sys/windows"

// hide lets a terminal no longer show what is typed, until show is called.
func hide(fd uintptr) (show func() error, err error) {
	console := windows.Handle(fd)
	var was uint32
	if err := windows.GetConsoleMode(console, &was); err != nil {
		return nil, err
	}
	return func() error { return windows.SetConsoleMode(console, was) }, windows.SetConsoleMode(console, was&^windows.ENABLE_ECHO_INPUT)
}
