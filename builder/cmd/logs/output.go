package logs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
)

// counted counts the bytes that are written.
type counted struct {
	io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// writer is where lines go: to the terminal, or to a file that must not be there yet. done ends it. Of a command that
// failed, a file without any line is removed, so that it can be called again; what did not become whole stays, and the
// error says so.
func (o *options) writer(cmd *cobra.Command) (w *bufio.Writer, done func(error) error, err error) {
	if o.output == "" {
		w = bufio.NewWriter(cmd.OutOrStdout())
		return w, func(err error) error { return errors.Join(err, w.Flush()) }, nil
	}
	f, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, nil, exit.Usage(fmt.Errorf("%s is there already; remove it, or choose another name", o.output))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write the lines: %w", err)
	}
	var to io.WriteCloser = f
	if strings.HasSuffix(o.output, ".zst") {
		if to, err = zstd.NewWriter(f); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("compress %s: %w", o.output, err), f.Close())
		}
	}
	lines := &counted{Writer: to}
	w = bufio.NewWriter(lines)
	return w, func(err error) error {
		ended := w.Flush()
		if to != f {
			ended = errors.Join(ended, to.Close())
		}
		ended = errors.Join(ended, f.Sync(), f.Close())
		if err != nil && lines.n == 0 {
			return errors.Join(err, os.Remove(o.output))
		}
		if ended != nil {
			ended = fmt.Errorf("%s is not whole: %w", o.output, ended)
		}
		return errors.Join(err, ended)
	}, nil
}
