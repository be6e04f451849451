// Package ownplant writes the folder of a plant with roles of its own, for tests that run its machine: those of
// examples/own-valkey, examples/own-programs and examples/own-mqtt, and pulse, a static binary (Source). It is
// examples/own-valkey with the others beside, and with stores of metrics and of logs on the same node.
//
// Three of the roles say which version they are, so that a test can give the machine other programs: recorder is in
// Python, report a script that a timer starts, and pulse is compiled. The package leaves out what a test does with the
// folder, and what the machine is.
package ownplant

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Source is the folder of pulse in the source tree.
const Source = "test/ownplant/testdata"

// Folder is the folder of the plant.
type Folder struct {
	// Dir is its path.
	Dir    string
	source string
}

// New writes the folder, with the programs of version 1. The source tree is at source. The gateway asks the device at
// an address, host and port; the first report is made at once, and one more a minute after each.
func New(t *testing.T, source, device string) *Folder {
	t.Helper()
	f := &Folder{filepath.Join(t.TempDir(), "own"), source}
	require.NoError(t, os.CopyFS(f.Dir, os.DirFS(filepath.Join(source, "examples/own-valkey"))))
	for _, from := range []string{"examples/own-programs", "examples/own-mqtt", Source} {
		for _, folder := range []string{"overlay", "programs", "roles", "services", "units"} {
			at := filepath.Join(source, from, folder)
			if _, err := os.Stat(at); err == nil {
				require.NoError(t, os.CopyFS(f.File(folder), os.DirFS(at)))
			}
		}
	}
	f.Replace(t, "cluster.yaml", "[valkey, gateway]", "[metrics, logs, valkey, gateway, own-mqtt, recorder, report, pulse]")
	f.Replace(t, "cluster.yaml", "roles: [metrics, logs,", "roles: [metrics-store, logs-store,")
	f.Replace(t, "cluster.yaml", "domain: plant.example\n", "domain: plant.example\n\ntrialSettle: 1\n")
	f.Write(t, "services/metrics.yaml", "days: 7\n")
	f.Write(t, "services/logs.yaml", "days: 7\nsize: 512MiB\nqueue: 64MiB\n")
	f.Replace(t, "services/gateway.yaml", "10.77.0.20:502", device)
	f.Replace(t, "units/report.timer", "OnActiveSec=1min\nOnUnitActiveSec=1h\n", "OnActiveSec=1s\nOnUnitInactiveSec=1min\nAccuracySec=1s\n")
	// A test gives it one when it has kept something.
	f.Replace(t, "roles/recorder.yaml", ", quota: 256MiB}", "}")
	f.Programs(t, "1")
	return f
}

// File is the path of a file of the folder.
func (f *Folder) File(name string) string { return filepath.Join(f.Dir, name) }

// Write writes a file of the folder, and the directory that it is in.
func (f *Folder) Write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(f.File(name)), 0o755))
	require.NoError(t, os.WriteFile(f.File(name), []byte(text), 0o644))
}

// Replace puts a text in the place of another one, wherever a file of the folder has it.
func (f *Folder) Replace(t *testing.T, name, old, text string) {
	t.Helper()
	data, err := os.ReadFile(f.File(name))
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	require.NoError(t, os.WriteFile(f.File(name), []byte(strings.ReplaceAll(string(data), old, text)), 0o644))
}

// Programs has the programs say that they are of a version. The examples have the first.
func (f *Folder) Programs(t *testing.T, version string) {
	t.Helper()
	binary := f.File("programs/pulse")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", binary, Source+"/pulse/main.go")
	cmd.Dir, cmd.Env = f.source, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	f.pin(t, "pulse", binary, version)
	if version == "1" {
		return
	}
	f.Replace(t, "overlay/opt/recorder/__main__.py", `VERSION = "1"`, fmt.Sprintf("VERSION = %q", version))
	f.Replace(t, "programs/report.sh", "wrote report $number", "wrote report $number by version "+version)
	f.pin(t, "report", f.File("programs/report.sh"), version)
}

// pin writes the hash of a file and its version into its program.
func (f *Folder) pin(t *testing.T, program, file, version string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	name := f.File("programs/" + program + ".yaml")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	text = regexp.MustCompile(`sha256: \S+`).ReplaceAll(text, fmt.Appendf(nil, "sha256: %x", sha256.Sum256(data)))
	text = regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(text, fmt.Appendf(nil, "version: %q", version))
	require.NoError(t, os.WriteFile(name, text, 0o644))
}

// Settings changes a setting of each role that has a page or a file of it: the titles are of line 2 and hall 4, pulse
// says welcome, and Valkey has 96 MiB.
func (f *Folder) Settings(t *testing.T) {
	t.Helper()
	f.Replace(t, "services/valkey.yaml", "maxMemory: 128MiB", "maxMemory: 96MiB")
	f.Replace(t, "services/recorder.yaml", "title: Line 1", "title: Line 2")
	f.Replace(t, "services/pulse.yaml", "hello", "welcome")
	f.Replace(t, "services/report.yaml", "Hall 3", "Hall 4")
}

// Remove takes pulse and report out of the folder: their files, and their names in cluster.yaml.
func (f *Folder) Remove(t *testing.T) {
	t.Helper()
	for role, files := range map[string][]string{
		"pulse":  {"programs/pulse", "programs/pulse.yaml", "units/pulse.service"},
		"report": {"programs/report.sh", "programs/report.yaml", "units/report.service", "units/report.timer"},
	} {
		f.Replace(t, "cluster.yaml", ", "+role, "")
		for _, name := range append(files, "roles/"+role+".yaml", "roles/"+role, "services/"+role+".yaml") {
			require.NoError(t, os.RemoveAll(f.File(name)))
		}
	}
}

// Device answers as a device of Modbus/TCP, until the test ends. Its registers hold 1000 and their address.
func Device(t *testing.T, l net.Listener) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
}

func answer(conn net.Conn) {
	defer conn.Close()
	for ask := make([]byte, 12); ; {
		if _, err := io.ReadFull(conn, ask); err != nil {
			return
		}
		value := 1000 + int(ask[8])<<8 + int(ask[9])
		if _, err := conn.Write([]byte{ask[0], ask[1], 0, 0, 0, 5, ask[6], 3, 2, byte(value >> 8), byte(value)}); err != nil {
			return
		}
	}
}
