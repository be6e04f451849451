package payload

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProgramIsPinnedByTheLineOfItsKey(t *testing.T) {
	dir, st, o := simple(t), newStore(t), Options{Env: os.Environ()}
	made, err := Build(context.Background(), st, dir, o)
	require.NoError(t, err)
	require.Nil(t, made[0].Sum)
	sums, err := ProgramSums(made)
	require.NoError(t, err)
	file := filepath.Join(dir, ProgramSumFile)
	require.NoError(t, os.WriteFile(file, sums, 0o644))

	o.Plan = true
	planned, err := Build(context.Background(), newStore(t), dir, o)
	require.NoError(t, err)
	require.Equal(t, made[0].Key, planned[0].Key, "what a program becomes is no part of what it is made of")
	require.Equal(t, made[0].Sources, planned[0].Sources)
	require.NotNil(t, planned[0].Sum)
	require.Equal(t, made[0].Size, planned[0].Sum.Size)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(hello+"// changed\n"), 0o644))
	planned, err = Build(context.Background(), st, dir, o)
	require.NoError(t, err)
	require.Nil(t, planned[0].Sum, "the line is of other pins")

	require.NoError(t, os.WriteFile(file, []byte("what\n"), 0o644))
	_, err = Build(context.Background(), st, dir, o)
	require.EqualError(t, err, "payload hello: program.sum: line 1: it is not PATH KEY SIZE sha256:HEX")
}

func TestWrongProgramSums(t *testing.T) {
	key, hash := strings.Repeat("0a", 32), "sha256:"+strings.Repeat("1b", 32)
	line := func(words ...string) string { return strings.Join(words, " ") + "\n" }
	good := line("/usr/bin/a", key, "10", hash)
	parsed, err := parseProgramSums([]byte(good + line("/usr/bin/b", key, "11", hash)))
	require.NoError(t, err)
	require.Len(t, parsed, 2)
	for text, want := range map[string]string{
		"":                                       "line 1: it is not PATH",
		good + "\n":                              "line 2: it is not PATH",
		good + good:                              "line 2: the lines are not sorted",
		line("usr/bin/a", key, "10", hash):       "not a clean absolute path",
		line("/usr/bin/a", "0A", "10", hash):     "is not a SHA-256",
		line("/usr/bin/a", key, "0", hash):       "the size 0 is not between",
		line("/usr/bin/a", key, "010", hash):     "the size 010 is not between",
		line("/usr/bin/a", key, "10", hash[7:]):  "is not sha256: and 64",
		line("/usr/bin/a", key, "10", "sha256:"): "is not sha256: and 64",
		line("/usr/bin/a", key, "10", hash, "x"): "it is not PATH",
	} {
		_, err := parseProgramSums([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzProgramSums(f *testing.F) {
	f.Add([]byte("/usr/bin/etcd " + strings.Repeat("0a", 32) + " 10 sha256:" + strings.Repeat("1b", 32) + "\n"))
	f.Add([]byte("/usr/bin/etcd\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sums, err := parseProgramSums(data)
		if err != nil {
			return
		}
		for path, s := range sums {
			require.NoError(t, checkPaths(path))
			require.Positive(t, s.sum.Size)
			require.Len(t, s.sum.SHA256, 64)
		}
	})
}
