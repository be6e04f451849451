// Package cri reads the log files of containers as a container runtime writes them for kubelet (Kubernetes,
// design-proposals/kubelet-cri-logging.md; k8s.io/cri-client/pkg/logs): lines TIME STREAM TAGS MESSAGE, of which those
// with the tag P are a part of a longer one and the next with the tag F ends it. It knows the names of the files, too,
// which kubelet gives and rotates (k8s.io/kubernetes/pkg/kubelet/logs).
//
// It opens no file; package agent/logs/rotated does.
package cri

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Dir is where kubelet has a folder for each pod.
const Dir = "/var/log/pods"

// Streams of a container.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Line is one line of a file.
type Line struct {
	Time time.Time
	// Stream is Stdout or Stderr.
	Stream string
	// Partial says that the next line of the stream goes on.
	Partial bool
	// Message is a part of the line that was given.
	Message []byte
}

// ErrMalformed is a line that no container runtime writes.
var ErrMalformed = errors.New("a line of a container's log is not TIME STREAM TAGS MESSAGE")

// maxTime bounds the first field in bytes: RFC 3339 with nanoseconds and an offset has 35.
const maxTime = 40

// Parse reads a line without its newline.
func Parse(line []byte) (Line, error) {
	at, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok || len(at) > maxTime {
		return Line{}, ErrMalformed
	}
	t, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return Line{}, ErrMalformed
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return Line{}, ErrMalformed
	}
	l := Line{Time: t}
	switch string(stream) {
	case Stdout:
		l.Stream = Stdout
	case Stderr:
		l.Stream = Stderr
	default:
		return Line{}, ErrMalformed
	}
	tags, message, _ := bytes.Cut(rest, []byte{' '})
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	switch string(tag) {
	case "F":
	case "P":
		l.Partial = true
	default:
		return Line{}, ErrMalformed
	}
	l.Message = message
	return l, nil
}

// Pod is what the name of a pod's folder says.
type Pod struct{ Namespace, Name, UID string }

// Bounds of names in bytes (RFC 1123, as Kubernetes has it).
const (
	maxLabel     = 63
	maxSubdomain = 253
)

// ParsePod reads the name of a pod's folder, NAMESPACE_POD_UID.
func ParsePod(folder string) (Pod, bool) {
	parts := strings.Split(folder, "_")
	if len(parts) != 3 {
		return Pod{}, false
	}
	p := Pod{Namespace: parts[0], Name: parts[1], UID: parts[2]}
	return p, IsLabel(p.Namespace) && IsSubdomain(p.Name) && IsLabel(p.UID)
}

// IsLabel tells whether a name can be that of a namespace or of a container.
func IsLabel(s string) bool { return len(s) <= maxLabel && isName(s, "-") }

// IsSubdomain tells whether a name can be that of a pod.
func IsSubdomain(s string) bool {
	return len(s) <= maxSubdomain && isName(s, "-.") && !strings.Contains(s, "..")
}

// isName tells whether s has small letters, digits and, inside, what is given.
func isName(s, inside string) bool {
	if s == "" || strings.ContainsAny(s[:1], inside) || strings.ContainsAny(s[len(s)-1:], inside) {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(inside, c) < 0 {
			return false
		}
	}
	return true
}

// File is what the name of a file in a container's folder says.
type File struct {
	// Restart is how many times the container was started before.
	Restart int
	// Rotated is when kubelet put the file aside; empty for the one that is written to.
	Rotated string
	// Gzip says that it is compressed.
	Gzip bool
}

// rotated is how kubelet writes the time of a rotation.
const rotated = "20060102-150405"

// ParseFile reads such a name: N.log, N.log.YYYYMMDD-HHMMSS or the same with .gz. What kubelet has not finished (.tmp)
// is none.
func ParseFile(name string) (File, bool) {
	number, rest, ok := strings.Cut(name, ".log")
	n, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil || strconv.FormatUint(n, 10) != number {
		return File{}, false
	}
	f := File{Restart: int(n)}
	if rest == "" {
		return f, true
	}
	stamp, gz := strings.CutSuffix(rest, ".gz")
	stamp, dot := strings.CutPrefix(stamp, ".")
	if _, err := time.Parse(rotated, stamp); err != nil || !dot || len(stamp) != len(rotated) {
		return File{}, false
	}
	f.Rotated, f.Gzip = stamp, gz
	return f, true
}

// Compare orders files of a container from the oldest on: restarts, what was put aside, what is written to.
func Compare(a, b File) int {
	switch {
	case a.Restart != b.Restart:
		return a.Restart - b.Restart
	case a.Rotated == b.Rotated:
		// For a moment both are there; they say the same.
		return number(a.Gzip) - number(b.Gzip)
	case a.Rotated == "":
		return 1
	case b.Rotated == "":
		return -1
	}
	return strings.Compare(a.Rotated, b.Rotated)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
