package cache

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/store"
)

// checked is what a check found.
type checked struct {
	Objects int   `json:"objects"`
	Size    int64 `json:"size"`
	// Unknown objects have nothing to compare them with.
	Unknown int `json:"unknown"`
	// Damaged names the files that were removed.
	Damaged []string `json:"damaged"`
}

func checkCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Read the whole cache, and remove what is damaged",
		Long: `Check reads every object and compares it with the checksum that was stored with it. What differs is removed; the next
build makes it again. Objects of an older spore, and objects on a filesystem without extended attributes, may have no
checksum.

It exits with 1 when something was damaged.`,
		Example: "  spore cache check",
		Args:    exit.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			st, err := cachefolder.Open(f.cache)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			objects, err := store.List(st.Dir())
			if err != nil {
				return err
			}
			c := checked{Damaged: []string{}}
			for _, o := range objects {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				known, err := st.Verify(o)
				switch {
				case errors.Is(err, store.ErrDamaged):
					c.Damaged = append(c.Damaged, o.Path)
				case err != nil:
					return err
				case !known:
					c.Unknown++
				}
				c.Objects, c.Size = c.Objects+1, c.Size+o.Size
			}
			if err := c.print(cmd, f.json); err != nil {
				return err
			}
			if len(c.Damaged) > 0 {
				return fmt.Errorf("%d objects were damaged, and are removed", len(c.Damaged))
			}
			return nil
		},
	}
}

func (c checked) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
	}
	for _, name := range c.Damaged {
		fmt.Fprintf(cmd.OutOrStdout(), "damaged and removed: %s\n", name)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "read %d objects, %s; %d of them have no checksum\n", c.Objects, size(c.Size), c.Unknown)
	return err
}
