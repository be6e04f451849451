// Package jar reads from a jar which artifacts of Maven it holds: by the files META-INF/maven/GROUP/NAME/pom.properties,
// which Maven lays into what it builds (maven.apache.org/shared/maven-archiver) and which stay where one jar is shaded into
// another, and those of jars inside of it. What was copied without these files is not seen.
package jar

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Bounds of a jar: its entries, the bytes of one pom.properties and of one jar inside, and how deep jars are in jars.
const (
	maxEntries    = 200_000
	maxProperties = 64 << 10
	maxInner      = 64 << 20
	maxDepth      = 3
)

// Artifact names an artifact of Maven.
type Artifact struct{ Group, Name, Version string }

// Artifacts lists what a jar says to hold, itself included, sorted, each once.
func Artifacts(r io.ReaderAt, size int64) ([]Artifact, error) {
	out, err := artifacts(r, size, 0)
	if err != nil {
		return nil, fmt.Errorf("read jar: %w", err)
	}
	slices.SortFunc(out, func(a, b Artifact) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(out), nil
}

func artifacts(r io.ReaderAt, size int64, depth int) ([]Artifact, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxEntries {
		return nil, fmt.Errorf("it has more than %d entries", maxEntries)
	}
	var out []Artifact
	for _, f := range z.File {
		switch {
		case path.Base(f.Name) == "pom.properties" && strings.HasPrefix(f.Name, "META-INF/maven/"):
			text, err := read(f, maxProperties)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			if a, ok := parse(string(text)); ok {
				out = append(out, a)
			}
		case path.Ext(f.Name) == ".jar":
			if depth == maxDepth {
				return nil, fmt.Errorf("%s: jars are nested more than %d deep", f.Name, maxDepth)
			}
			data, err := read(f, maxInner)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			inner, err := artifacts(bytes.NewReader(data), int64(len(data)), depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			out = append(out, inner...)
		}
	}
	return out, nil
}

func read(f *zip.File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return nil, errors.New("it is larger than such a file may be")
	}
	return data, err
}

// parse reads the three properties; a file without one of them names nothing. Escapes of java.util.Properties are not read:
// coordinates need none.
func parse(text string) (Artifact, bool) {
	var a Artifact
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "groupId":
			a.Group = value
		case "artifactId":
			a.Name = value
		case "version":
			a.Version = value
		}
	}
	return a, word(a.Group) && word(a.Name) && word(a.Version)
}

// word tells whether a coordinate has only what Maven allows in one; a placeholder that was not filled in is none.
func word(s string) bool {
	return s != "" && len(s) < 200 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+", r))
	})
}
