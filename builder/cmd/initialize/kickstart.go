package initialize

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"spore/builder/kickstart"
	"spore/cluster/answers"
)

// translateKickstart writes the answer file of a kickstart file, and prints what belongs elsewhere and what has no meaning
// here. It overwrites nothing.
func translateKickstart(w io.Writer, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read the kickstart file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, kickstart.MaxSize+1))
	if err != nil {
		return fmt.Errorf("read the kickstart file %s: %w", from, err)
	}
	t, err := kickstart.Translate(data)
	if err != nil {
		return fmt.Errorf("translate %s: %w", from, err)
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists already and is not overwritten; name another file", to)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the answer file: %w", err)
	}
	text := t.AnswerFile(filepath.Base(from))
	if err := writeNew(to, []byte(text)); err != nil {
		return fmt.Errorf("write the answer file: %w", err)
	}
	fmt.Fprintf(w, "%s:\n\n%s", to, text)
	name := t.Answers.Node
	if name == "" {
		name = "NAME"
	}
	for _, part := range []struct{ title, text string }{
		{"belongs into nodes/" + name + ".yaml:", t.NodeFile()},
		{"belongs into cluster.yaml:", t.ClusterLines()},
		{"has no meaning here, or not enough:", t.LeftLines()},
	} {
		if part.text != "" {
			fmt.Fprintf(w, "\n%s\n\n%s", part.title, part.text)
		}
	}
	fmt.Fprintf(w, "\nthen: spore validate configs --answers %s\n", to)
	return nil
}

// answersDefault is the file that is written where none is named. It is not in the configuration folder, which is the
// same for all nodes.
const answersDefault = answers.Name
