// Package alertrules is what a configuration brings its nodes of rules of alerts: those of the image without the
// unwanted ones, as the settings take them, and what is wrong with those of the folder.
package alertrules

import (
	"errors"
	"fmt"

	"spore/services/metrics"
	"spore/services/metrics/rules"
	"spore/services/metrics/rules/shipped"
)

// Names are the names of the rules of the image.
func Names() []string { return shipped.Names() }

// Shipped are the files of the image without the rules of these names.
func Shipped(off []string) ([]metrics.RuleFile, error) {
	var out []metrics.RuleFile
	for _, name := range shipped.Files() {
		text, err := shipped.Without(name, off)
		if err != nil {
			return nil, fmt.Errorf("take rules off %s: %w", name, err)
		}
		if text != nil {
			out = append(out, metrics.RuleFile{Name: "spore-" + name, Text: string(text)})
		}
	}
	return out, nil
}

// Check finds what is wrong with the files of the folder, by their names.
func Check(files map[string][]byte) (rules.Problems, error) {
	_, err := rules.All(files)
	var problems rules.Problems
	if errors.As(err, &problems) {
		return problems, nil
	}
	return nil, err
}
