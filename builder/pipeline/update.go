package pipeline

import (
	"context"
	"path/filepath"

	"spore/builder/provenance"
	"spore/builder/updateset"
	"spore/cluster/spec"
)

// UpdateName is the folder in the output folder with the pieces that running nodes are updated from.
const UpdateName = "update"

// writeUpdate writes that folder. Nodes take nothing from it until `spore push` has put a signed head there.
func (b *build) writeUpdate(ctx context.Context) error {
	if !b.wants(spec.FormatUpdate) {
		return nil
	}
	step := b.Progress.Step("update")
	set, err := updateset.Of(updateset.Parts{
		Root: b.source(objSquashfs), Tree: b.source(objVerity), UKI: b.media.UKI, ClusterFile: b.media.ClusterFile,
		Loader: b.media.Loader,
	})
	if err != nil {
		return err
	}
	defer set.Close()
	b.update = filepath.Join(b.Out, UpdateName)
	if err := set.WriteFolder(ctx, b.update); err != nil {
		return err
	}
	b.updateIndexes = []provenance.Resource{
		{Name: UpdateName + "/" + updateset.RootIndex, Algorithm: provenance.SHA256, Digest: set.Root.Index.SHA256},
		{Name: UpdateName + "/" + updateset.BootIndex, Algorithm: provenance.SHA256, Digest: set.Boot.SHA256},
	}
	step.Note("%s, %d pieces", b.update, len(set.All()))
	step.Done()
	return nil
}
