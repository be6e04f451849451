package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spore/storage/atomicfile"
)

// MaxSecret bounds one secret in bytes.
const MaxSecret = 1 << 20

// Secret reads a secret that this unit was given.
func Secret(ref string) ([]byte, error) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return nil, errors.New("CREDENTIALS_DIRECTORY is not set: this command is for a unit with LoadCredential=")
	}
	data, err := atomicfile.ReadLimited(filepath.Join(dir, "secret_"+ref), MaxSecret)
	if err != nil {
		return nil, fmt.Errorf("secret %s of this unit: %w", ref, err)
	}
	return data, nil
}

// RuntimeDirectory is the unit's runtime directory of this name, else the first: systemd tells a unit with several all of
// them, sorted (systemd.exec(5)).
func RuntimeDirectory(name string) string {
	all := filepath.SplitList(os.Getenv("RUNTIME_DIRECTORY"))
	for _, dir := range all {
		if filepath.Base(dir) == name {
			return dir
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}
