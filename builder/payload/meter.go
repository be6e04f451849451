package payload

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// Progress says how far the compiler, or Maven, is with what the store does not have.
type Progress struct {
	// Program is the name of a compiled Program, or of the payload whose jars are asked for.
	Program string
	// Done of Total packages are compiled, or being compiled. Total is 0 for jars, and until it is known.
	Done, Total int
	// Now is what was heard of last: the import path of a package, or a few words.
	Now string
}

// reportEvery is how often progress is told.
const reportEvery = time.Second

// meter follows one program. Its methods may be called from several goroutines.
type meter struct {
	mu   sync.Mutex
	at   Progress
	left map[string]bool
	stop func()
}

// startMeter tells report at once, and each second until stop is called, after which it is not called again.
func startMeter(name string, report func(Progress)) *meter {
	m := &meter{at: Progress{Program: name, Now: "starting"}, stop: func() {}}
	if report == nil {
		return m
	}
	report(m.now())
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				report(m.now())
			}
		}
	}()
	m.stop = func() { close(quit); <-done }
	return m
}

func (m *meter) now() Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// say replaces what is told of the moment.
func (m *meter) say(now string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at.Now = now
}

// expect names the packages that the compiler will name.
func (m *meter) expect(packages []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = map[string]bool{}
	for _, p := range packages {
		m.left[p] = true
	}
	m.at.Done, m.at.Total = 0, len(m.left)
}

// line takes a line of the go command, and reports whether it says how far the command is: what is fetched, or which
// package is compiled. All else is a message for a person.
func (m *meter) line(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if what, ok := strings.CutPrefix(text, "go: downloading "); ok {
		m.at.Now = "fetching " + what
		return true
	}
	if !m.left[text] {
		return false
	}
	delete(m.left, text)
	m.at.Done, m.at.Now = m.at.Done+1, text
	if len(m.left) == 0 {
		m.at.Now = "linking"
	}
	return true
}

// maxLine bounds a line without an end, in bytes.
const maxLine = 64 << 10

// lines hands on what is written to it, line by line and without their ends.
type lines struct {
	each func(string)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found && len(line) < maxLine {
			return len(p), nil
		}
		l.each(string(line))
		l.rest = rest
	}
}

// end hands on a last line that has no end.
func (l *lines) end() {
	if len(l.rest) > 0 {
		l.each(string(l.rest))
		l.rest = nil
	}
}
