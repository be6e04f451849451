package pki

import (
	"errors"
	"fmt"
	"strings"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	tree "spore/pki"
)

// readGiven reads NAME=FILE.
func readGiven(text string) (string, tree.Hidden, error) {
	name, file, ok := strings.Cut(text, "=")
	if !ok || name == "" || file == "" {
		return "", "", exit.Usage(errors.New("--secret is NAME=FILE, such as mqtt-password-sensor=sensor.txt"))
	}
	data, err := ask.Small(file)
	if err != nil {
		return "", "", fmt.Errorf("secret %s: %w", name, err)
	}
	return name, tree.Hidden(data), nil
}
