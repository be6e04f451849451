// Package question finds the questions for passphrases that are open on the machine, and answers them, as systemd's own
// agents do (systemd, Password Agents): a file ask.* says what is asked and names the socket that takes the answer.
// Whoever answers first is heard; the file goes then.
package question

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/agent/paths"
	"spore/agent/screen/console"
	"spore/storage/atomicfile"
)

// Bounds of a file in bytes, and of how many are looked at.
const (
	maxFile  = 16 << 10
	maxFiles = 16
)

// MaxAnswer is how long an answer may be, in bytes (systemd, PASSWORD_MAX is of this size).
const MaxAnswer = 1024

// Question is one that is open.
type Question struct {
	// File is its name, which no other question has.
	File string
	// Message is what is asked, in the words of whoever asks.
	Message string
	// Socket takes the answer.
	Socket string
}

// Open lists the questions that are open, in the order of their files. Those that are malformed are left out: nobody
// could answer them.
func Open(root paths.Root) (out []Question) {
	files, _ := filepath.Glob(root.At(console.Questions + "/ask.*")) // The pattern is good.
	slices.Sort(files)
	for _, f := range files[:min(len(files), maxFiles)] {
		data, err := atomicfile.ReadLimited(f, maxFile)
		if err != nil {
			continue
		}
		if q, pid, err := parse(data); err == nil && (pid == 0 || console.Lives(pid)) {
			q.File = filepath.Base(f)
			out = append(out, q)
		}
	}
	return out
}

// Of are the questions of a machine.
type Of struct{ Root paths.Root }

// Open is the function Open.
func (o Of) Open() []Question { return Open(o.Root) }

// Answer is the function Answer.
func (o Of) Answer(q Question, answer []byte) error { return Answer(o.Root, q, answer) }

// parse reads a file (section Ask, a key and a value a line).
func parse(data []byte) (q Question, pid int, err error) {
	in := false
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if strings.HasPrefix(line, "[") {
			in = line == "[Ask]"
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !in || !ok {
			continue
		}
		switch key {
		case "Message":
			q.Message = value
		case "Socket":
			q.Socket = value
		case "PID":
			if pid, err = strconv.Atoi(value); err != nil || pid < 1 {
				return Question{}, 0, fmt.Errorf("the process %.20q is not a number", value)
			}
		}
	}
	// A socket elsewhere would be given a passphrase by root that root did not ask for.
	if path.Clean(q.Socket) != q.Socket || path.Dir(q.Socket) != console.Questions {
		return Question{}, 0, fmt.Errorf("the socket %.100q does not lie in %s", q.Socket, console.Questions)
	}
	return q, pid, nil
}

// Answer answers a question. The answer is right or wrong: whoever asks says so by asking again.
func Answer(root paths.Root, q Question, answer []byte) error {
	if len(answer) > MaxAnswer {
		return fmt.Errorf("an answer has at most %d bytes", MaxAnswer)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: root.At(q.Socket), Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("answer: nobody asks any more: %w", err)
	}
	defer conn.Close()
	message := append([]byte("+"), answer...)
	defer clear(message)
	if _, err := conn.Write(message); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
