package cluster

import (
	"os"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// programExample is an example of a page: a block of YAML whose first line names its file.
var programExample = regexp.MustCompile("(?s)```yaml\n# (programs/[a-z]+\\.yaml)\n(.*?)```")

func TestTheExamplesOfTheirPageAreValidPrograms(t *testing.T) {
	text, err := os.ReadFile("../docs/own-programs.md")
	require.NoError(t, err)
	files := goodFolder(t)
	for name := range goodPrograms {
		delete(files, name)
	}
	files["programs/gateway/go.mod"] = &fstest.MapFile{Data: []byte("module example.org/gateway\n")}
	files["programs/rotate.sh"] = &fstest.MapFile{Data: []byte("#!/bin/sh\n")}
	examples := programExample.FindAllSubmatch(text, -1)
	require.Len(t, examples, 5)
	for _, m := range examples {
		files[string(m[1])] = &fstest.MapFile{Data: m[2]}
	}
	c, report := Check(files, Options{Strict: true})
	require.Empty(t, serious(report))
	require.Len(t, c.Programs, 5)
}
