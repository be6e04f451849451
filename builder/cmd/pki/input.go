package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"spore/builder/cmd/exit"
	tree "spore/pki"
)

// maxSmall is the most that is read of a file with a passphrase, a password or an identity, in bytes.
const maxSmall = 1 << 16

// askTerminal asks at the terminal itself, whatever standard input and output are.
func askTerminal(what string, twice bool) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", exit.Usage(fmt.Errorf("there is no terminal to ask for the %s; name a file (--passphrase-file, --bundle-passphrase-file)", what))
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

func readSmall(name string) ([]byte, error) {
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

// readPassphrase reads the first line of a file.
func readPassphrase(name string) (string, error) {
	data, err := readSmall(name)
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

// readGiven reads NAME=FILE.
func readGiven(text string) (string, tree.Hidden, error) {
	name, file, ok := strings.Cut(text, "=")
	if !ok || name == "" || file == "" {
		return "", "", exit.Usage(errors.New("--secret is NAME=FILE, such as mqtt-password-sensor=sensor.txt"))
	}
	data, err := readSmall(file)
	if err != nil {
		return "", "", fmt.Errorf("secret %s: %w", name, err)
	}
	return name, tree.Hidden(data), nil
}
