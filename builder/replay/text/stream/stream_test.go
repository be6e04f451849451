package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/stream"
	"spore/builder/tree"
)

func call(t *testing.T, stdin string) (c *command.Call, stdout, stderr *bytes.Buffer) {
	fs := files.New(tree.New())
	require.NoError(t, fs.MkdirAll("/d", 0o755))
	require.NoError(t, fs.WriteFile("/d/a", []byte("1\n2"), 0o644))
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &command.Call{Name: "c", Dir: "/d", Stdin: strings.NewReader(stdin), Stdout: stdout, Stderr: stderr,
		Files: fs}, stdout, stderr
}

func TestReadAllReadsWhatItCanAndNamesTheRest(t *testing.T) {
	c, _, stderr := call(t, "in")
	inputs, failed, err := stream.ReadAll(c, []string{"a", "none", "/d", "-", "/dev/null"})
	require.NoError(t, err)
	require.True(t, failed)
	require.Equal(t, "c: none: No such file or directory\nc: /d: Is a directory\n", stderr.String())
	require.Len(t, inputs, 3)
	require.Equal(t, "1\n2", string(inputs[0].Data))
	require.Equal(t, "in", string(inputs[1].Data))
	require.Empty(t, inputs[2].Data)
}

func TestReadAllReadsStandardInputWithoutNames(t *testing.T) {
	c, _, _ := call(t, "in")
	inputs, failed, err := stream.ReadAll(c, nil)
	require.NoError(t, err)
	require.False(t, failed)
	require.Equal(t, []stream.Input{{Name: "-", Data: []byte("in")}}, inputs)
	c.Stdin = nil
	data, err := stream.Read(c, "-")
	require.NoError(t, err)
	require.Empty(t, data)
}

func TestInputInAllHasABound(t *testing.T) {
	c, _, _ := call(t, strings.Repeat("x", stream.MaxInput))
	_, _, err := stream.ReadAll(c, []string{"a", "-"})
	require.ErrorIs(t, err, files.ErrBound)
}

func TestLinesKeepWhatTheyEndWith(t *testing.T) {
	require.Equal(t, [][]byte{[]byte("a\n"), []byte("\n"), []byte("b")}, stream.Lines([]byte("a\n\nb")))
	require.Equal(t, []string{"a", "", "b"}, stream.Bare([]byte("a\n\nb")))
	require.Empty(t, stream.Lines(nil))
}

func TestBufferedOutput(t *testing.T) {
	print := func(status int, failure error) command.Func {
		return func(_ context.Context, c *command.Call) (int, error) {
			fmt.Fprintln(c.Stdout, "out")
			return status, failure
		}
	}
	c, stdout, _ := call(t, "")
	status, err := stream.Buffered(print(3, nil))(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 3, status)
	require.Equal(t, "out\n", stdout.String())

	own := errors.New("own")
	_, err = stream.Buffered(print(0, own))(t.Context(), c)
	require.ErrorIs(t, err, own)

	c.Stdout = failing{io.ErrClosedPipe}
	status, err = stream.Buffered(print(0, nil))(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 141, status)

	c.Stdout = failing{own}
	_, err = stream.Buffered(print(0, nil))(t.Context(), c)
	require.ErrorIs(t, err, own)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
