// Package ask is how commands get passphrases: from the terminal or from a file.
package ask

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"spore/builder/cmd/exit"
)

// maxSmall is the most that is read of a file with a passphrase, a password, a key or an identity, in bytes.
const maxSmall = 1 << 16

// Terminal asks for something secret at the terminal itself, whatever standard input and output are; twice for something
// new.
func Terminal(what string, twice bool) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", exit.Usage(fmt.Errorf("there is no terminal to ask for the %s; name a file (see --help)", what))
	}
	defer tty.Close()
	ask := func(question string) (string, error) {
		fmt.Fprintf(tty, "%s: ", question)
		b, err := term.ReadPassword(int(tty.Fd()))
		fmt.Fprintln(tty)
		if err != nil {
			return "", fmt.Errorf("read the %s: %w", what, err)
		}
		return string(b), nil
	}
	first, err := ask(what)
	if err != nil || !twice {
		return first, err
	}
	second, err := ask("again")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two are not the same; try again")
	}
	return first, nil
}

// Small reads a file of at most 64 KiB.
func Small(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxSmall {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", name, maxSmall)
	}
	return data, nil
}

// Passphrase reads a file that has it as its only line.
func Passphrase(name string) (string, error) {
	data, err := Small(name)
	if err != nil {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 || len(bytes.TrimSpace(rest)) > 0 {
		return "", fmt.Errorf("read the passphrase: %s must hold it as its only line", name)
	}
	return string(line), nil
}
