package grafana

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

// answers are what programs told at two moments, in the text format of Prometheus. Those of the control plane and of
// CoreDNS went through the collector; those of Ceph (16.2) are of the manager's module prometheus, with the families
// that dashboards have; those of Mosquitto (2.0) are its topics below $SYS under the names of the collector. Made is
// written by hand.
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
