// Package notice reads what Alertmanager posts to a webhook (Alertmanager, configuration, webhook_config, version 4),
// and holds it to bounds: labels come from programs of others.
package notice

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxSize bounds a message in bytes, and maxAlerts the alerts in it.
	MaxSize   = 4 << 20
	maxAlerts = 1000
	// maxName, maxText and maxLabels bound an alert: more of a text is cut, more labels are left out.
	maxName, maxText, maxLabels = 128, 2048, 64
)

// Alert is one thing that is wrong, or was.
type Alert struct {
	// Firing is false when it is over.
	Firing bool
	// Name, Severity and Instance are labels; Instance is mostly the node. Empty where there is none.
	Name, Severity, Instance string
	// Summary and Description are for people.
	Summary, Description string
	// Since is when it began, and Until when it ended; Until is zero while it fires.
	Since, Until time.Time
	// Labels are all labels.
	Labels map[string]string
	// Fingerprint tells it from every other alert.
	Fingerprint string
}

// Parse reads a message.
func Parse(data []byte) ([]Alert, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("the message has more than %d bytes", MaxSize)
	}
	var m struct {
		Version string `json:"version"`
		Alerts  []struct {
			Status      string            `json:"status"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
			StartsAt    time.Time         `json:"startsAt"`
			EndsAt      time.Time         `json:"endsAt"`
			Fingerprint string            `json:"fingerprint"`
		} `json:"alerts"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("the message is malformed: %w", err)
	}
	switch {
	case m.Version != "4":
		return nil, fmt.Errorf("the message is of version %.16q; 4 is known", m.Version)
	case len(m.Alerts) == 0:
		return nil, errors.New("the message has no alerts")
	case len(m.Alerts) > maxAlerts:
		return nil, fmt.Errorf("the message has %d alerts; at most %d are read", len(m.Alerts), maxAlerts)
	}
	out := make([]Alert, 0, len(m.Alerts))
	for _, a := range m.Alerts {
		if a.Status != "firing" && a.Status != "resolved" {
			return nil, fmt.Errorf("an alert has the status %.16q; firing and resolved are known", a.Status)
		}
		one := Alert{
			Firing: a.Status == "firing", Since: a.StartsAt.UTC(), Labels: map[string]string{},
			Name: Text(a.Labels["alertname"], maxName), Severity: Text(a.Labels["severity"], maxName),
			Instance: Text(a.Labels["instance"], maxName), Fingerprint: Text(a.Fingerprint, maxName),
			Summary: Text(a.Annotations["summary"], maxText), Description: Text(a.Annotations["description"], maxText),
		}
		if !one.Firing {
			one.Until = a.EndsAt.UTC()
		}
		for _, name := range first(a.Labels, maxLabels) {
			one.Labels[Text(name, maxName)] = Text(a.Labels[name], maxText)
		}
		out = append(out, one)
	}
	return out, nil
}

// Text is a text as it may stand in one line: valid UTF-8 of at most that many bytes, without control characters and
// without those that change the direction of what follows on a screen.
func Text(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
