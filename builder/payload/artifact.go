package payload

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"spore/builder/store"
)

// Artifact names a jar of a Maven repository (maven.apache.org/pom.html, "Maven Coordinates").
type Artifact struct {
	Group, Name, Version string
	// Classifier tells apart what is made of one version, such as linux_amd64; mostly empty.
	Classifier string
}

// String is the form GROUP:NAME:VERSION or GROUP:NAME:VERSION:CLASSIFIER.
func (a Artifact) String() string {
	return strings.TrimSuffix(strings.Join([]string{a.Group, a.Name, a.Version, a.Classifier}, ":"), ":")
}

// File is the name of the jar.
func (a Artifact) File() string {
	return strings.TrimSuffix(a.Name+"-"+a.Version+"-"+a.Classifier, "-") + ".jar"
}

// key tells whether two artifacts are the same but for their versions.
func (a Artifact) key() [3]string { return [3]string{a.Group, a.Name, a.Classifier} }

// coordinate is one word of an artifact. A version that is none of these is a range or a property.
var coordinate = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_-])?$`)

// check refuses what cannot be the name of one jar for ever.
func (a Artifact) check() error {
	for _, word := range []string{a.Group, a.Name, a.Version} {
		if !coordinate.MatchString(word) || strings.Contains(word, "..") {
			return fmt.Errorf("%s: %q is not valid in the name of an artifact (a version is exact: no range, no property)", a, word)
		}
	}
	if a.Classifier != "" && !coordinate.MatchString(a.Classifier) {
		return fmt.Errorf("%s: %q is not a classifier", a, a.Classifier)
	}
	switch {
	case a.Version == "LATEST" || a.Version == "RELEASE" || strings.HasSuffix(a.Version, "-SNAPSHOT"):
		return fmt.Errorf("%s: the version %s can change; name an exact version", a, a.Version)
	}
	return nil
}

func parseArtifact(s string) (Artifact, error) {
	words := strings.Split(s, ":")
	if len(words) != 3 && len(words) != 4 {
		return Artifact{}, fmt.Errorf("%q is not GROUP:NAME:VERSION or GROUP:NAME:VERSION:CLASSIFIER", s)
	}
	a := Artifact{Group: words[0], Name: words[1], Version: words[2]}
	if len(words) == 4 {
		if a.Classifier = words[3]; a.Classifier == "" {
			return Artifact{}, fmt.Errorf("%q has an empty classifier", s)
		}
	}
	return a, a.check()
}

// artifactOf reads a path of a Maven repository: GROUP/NAME/VERSION/NAME-VERSION[-CLASSIFIER].jar, with the dots of the
// group as slashes.
func artifactOf(p string) (Artifact, error) {
	dir, file := path.Split(p)
	words := strings.Split(strings.TrimSuffix(dir, "/"), "/")
	if len(words) < 3 {
		return Artifact{}, fmt.Errorf("%s is not a path of a Maven repository", p)
	}
	n := len(words)
	a := Artifact{Group: strings.Join(words[:n-2], "."), Name: words[n-2], Version: words[n-1]}
	rest, ok := strings.CutPrefix(file, a.Name+"-"+a.Version)
	rest, jar := strings.CutSuffix(rest, ".jar")
	if !ok || !jar || (rest != "" && !strings.HasPrefix(rest, "-")) {
		return Artifact{}, fmt.Errorf("%s is not a jar", p)
	}
	a.Classifier = strings.TrimPrefix(rest, "-")
	return a, a.check()
}

// jar is one line of SumFile.
type jar struct {
	Artifact
	size   int64
	sha256 string
}

const (
	// maxJars and maxJar bound a payload: its jars, and the bytes of each.
	maxJars = 500
	maxJar  = 256 << 20
)

// line is the form in SumFile.
func (j jar) line() string { return fmt.Sprintf("%s %d sha256:%s", j.Artifact, j.size, j.sha256) }

// formatSums is the text of SumFile, sorted.
func formatSums(list []jar) []byte {
	list = append([]jar(nil), list...)
	sort.Slice(list, func(i, j int) bool { return list[i].String() < list[j].String() })
	var out bytes.Buffer
	for _, j := range list {
		fmt.Fprintln(&out, j.line())
	}
	return out.Bytes()
}

// parseSums reads SumFile: a line GROUP:NAME:VERSION[:CLASSIFIER] SIZE sha256:HEX for each jar, sorted.
func parseSums(data []byte) ([]jar, error) {
	var out []jar
	artifacts, files := map[[3]string]bool{}, map[string]bool{}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(data) == 0 {
		return nil, errors.New("it names no jar")
	}
	for n, line := range lines {
		j, err := parseSum(line)
		switch {
		case err != nil:
		case artifacts[j.key()]:
			err = fmt.Errorf("%s appears in a second version", j.Artifact)
		case files[j.File()]:
			err = fmt.Errorf("a second jar is called %s", j.File())
		case len(out) > 0 && out[len(out)-1].String() >= j.String():
			err = errors.New("the lines are not sorted")
		case len(out) == maxJars:
			err = fmt.Errorf("there are more than %d jars", maxJars)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		artifacts[j.key()], files[j.File()] = true, true
		out = append(out, j)
	}
	return out, nil
}

func parseSum(line string) (jar, error) {
	f := strings.Fields(line)
	if len(f) != 3 || strings.Join(f, " ") != line {
		return jar{}, errors.New("it is not GROUP:NAME:VERSION[:CLASSIFIER] SIZE sha256:HEX")
	}
	a, err := parseArtifact(f[0])
	if err != nil {
		return jar{}, err
	}
	size, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || size <= 0 || size > maxJar || strconv.FormatInt(size, 10) != f[1] {
		return jar{}, fmt.Errorf("the size %s is not between 1 and %d bytes", f[1], maxJar)
	}
	sum, ok := strings.CutPrefix(f[2], "sha256:")
	if _, err := store.ParseKey(sum); !ok || err != nil {
		return jar{}, fmt.Errorf("%s is not sha256: and 64 hexadecimal digits", f[2])
	}
	return jar{a, size, sum}, nil
}

// compareJars says every way in which what Maven found differs from what is pinned.
func compareJars(pinned, found []jar) error {
	byKey := map[[3]string]jar{}
	for _, j := range found {
		byKey[j.key()] = j
	}
	var problems []error
	for _, want := range pinned {
		got, ok := byKey[want.key()]
		delete(byKey, want.key())
		switch {
		case !ok:
			problems = append(problems, fmt.Errorf("%s is in %s, but %s does not lead to such a jar", want.Artifact, SumFile, PomFile))
		case got.Version != want.Version:
			problems = append(problems, fmt.Errorf("%s leads to %s, and %s has version %s", PomFile, got.Artifact, SumFile, want.Version))
		case got.sha256 != want.sha256:
			problems = append(problems, fmt.Errorf("%s: the jar that Maven brought has %d bytes and sha256 %s, not the %d bytes and %s of %s; it may be damaged or forged: remove it from Maven's local repository and try again",
				want.Artifact, got.size, got.sha256, want.size, want.sha256, SumFile))
		case got.size != want.size:
			problems = append(problems, fmt.Errorf("%s: the jar has %d bytes, and %s says %d", want.Artifact, got.size, SumFile, want.size))
		}
	}
	for _, got := range found {
		if _, left := byKey[got.key()]; left {
			problems = append(problems, fmt.Errorf("%s leads to %s, which %s does not name", PomFile, got.Artifact, SumFile))
		}
	}
	return errors.Join(problems...)
}

// exists tells whether a payload's folder has a file.
func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}
