package updatetest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"

	"spore/storage/pieces"
	"spore/wire/update"
)

// SystemOf is the system of an update, for a node that runs it already. Its root is written to a file in the folder.
func SystemOf(dir string, h update.Head, object func(context.Context, pieces.Sum) ([]byte, error)) (System, error) {
	s := System{
		RootHash: h.RootHash, ClusterHash: h.ClusterHash, Serial: h.Serial, Versions: h.Root.Versions,
		Root: filepath.Join(dir, "root-"+h.RootHash[:16]),
	}
	root, err := os.Create(s.Root)
	if err != nil {
		return s, err
	}
	defer root.Close()
	var both bytes.Buffer
	for _, part := range []struct {
		blob update.Blob
		into *pieces.Index
		out  io.Writer
	}{{h.Root.Index, &s.Index, root}, {h.Boot, &s.Boot, &both}} {
		sum, err := pieces.ParseSum(part.blob.SHA256)
		if err != nil {
			return s, err
		}
		data, err := object(context.Background(), sum)
		if err != nil {
			return s, err
		}
		if *part.into, err = pieces.Parse(data); err != nil {
			return s, err
		}
		for _, p := range *part.into {
			content, err := object(context.Background(), p.Sum)
			if err != nil {
				return s, err
			}
			if _, err := part.out.Write(content); err != nil {
				return s, err
			}
		}
	}
	s.UKI, s.Part = both.Bytes()[:h.UKI.Size], both.Bytes()[h.UKI.Size:]
	return s, nil
}
