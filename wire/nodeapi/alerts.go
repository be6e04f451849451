package nodeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ForceWatchdog is the value of Order.Force that has alerts-silence silence the alert that always fires.
const ForceWatchdog = "watchdog"

// MinSilence and MaxSilence are for how long alerts may be silenced.
const (
	MinSilence = 5 * time.Minute
	MaxSilence = 30 * 24 * time.Hour
)

// Bounds of what a person silences: how many labels, and how many bytes a label's name, its value and a comment have.
const (
	maxSilenceLabels = 10
	maxLabelName     = 128
	maxLabelValue    = 512
	maxComment       = 1000
)

// Labels is the form of labels and their values in one argument: an object of JSON.
func Labels(values map[string]string) (string, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("internal error: %w", err)
	}
	return string(data), nil
}

// ParseLabels reads labels that Labels wrote. A name has the form of Prometheus (data model, metric names and labels).
func ParseLabels(text string) (map[string]string, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	var values map[string]string
	if err := d.Decode(&values); err != nil {
		return nil, fmt.Errorf("the labels are malformed: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the labels are malformed: something follows them")
	}
	if len(values) == 0 || len(values) > maxSilenceLabels {
		return nil, fmt.Errorf("there are %d labels; write 1 to %d", len(values), maxSilenceLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(name) > maxLabelName || !made(name, "_") || name == "" || '0' <= name[0] && name[0] <= '9' {
			return nil, fmt.Errorf("%.64q is not the name of a label; write letters, digits and _, such as job", name)
		}
		if err := labelValue(values[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return values, nil
}

// labels is a Check that takes labels with values.
func labels(text string) error {
	_, err := ParseLabels(text)
	return err
}

// labelValue is a Check that takes what an alert may have as a label's value.
func labelValue(value string) error {
	switch {
	case strings.TrimSpace(value) == "" || len(value) > maxLabelValue:
		return fmt.Errorf("a label's value is text of 1 to %d bytes", maxLabelValue)
	case !plain(value):
		return errors.New("a label's value is text without control characters")
	}
	return nil
}

// comment is a Check that takes why somebody does something.
func comment(value string) error {
	if strings.TrimSpace(value) == "" || len(value) > maxComment || !utf8.ValidString(value) {
		return fmt.Errorf("a comment is text of 1 to %d bytes", maxComment)
	}
	return nil
}

// silenceID is a Check that takes the ID of a silence: a UUID in lower case, which also fits into a path.
func silenceID(value string) error {
	if partUUID(value) != nil || strings.ToLower(value) != value {
		return fmt.Errorf("%.64q is not the ID of a silence; spore alerts silences lists them", value)
	}
	return nil
}
