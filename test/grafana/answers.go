package grafana

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

// answers are what nodes told at two moments, in the text format of Prometheus. They went through the collector: those
// of the control plane, of Felix and of CoreDNS, those of Ceph (16.2.15, of whose two OSDs one is down at the second
// moment), and those of Mosquitto (2.0.11, with a client that takes what others publish). Made is written by hand.
//
//go:embed testdata/*.prom
var answers embed.FS

// Answer is what somebody told at the first or the second moment.
func Answer(who string, moment int) (string, error) {
	text, err := answers.ReadFile(path.Join("testdata", fmt.Sprintf("%s.%d.prom", who, moment)))
	return string(text), err
}

// At gives each sample of an answer a time, in milliseconds of Unix time.
func At(text string, milliseconds int64) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintf(&b, "%s %d\n", line, milliseconds)
	}
	return b.String()
}
