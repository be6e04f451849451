package renewal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spore/storage/atomicfile"
)

// maxOwn bounds a file of kubelet's, in bytes.
const maxOwn = 1 << 20

// kubeletFiles are the certificates that kubelet asks for itself, in its folder pki, by the file of the authority that signs them.
var kubeletFiles = map[string]string{
	"kubernetes-client.crt": "kubelet-client-current.pem",
	"kubelet-serving.crt":   "kubelet-server-current.pem",
}

// DropForeign removes those of kubelet's own certificates that the authority does not sign that signs now, so that it asks for
// others when it starts: it would keep them to their end, and the end of a rotation would cut it off. trust returns a file
// of paths.Trust. dropped lists what was removed.
func DropForeign(dir string, trust func(name string) ([]byte, error)) (dropped []string, err error) {
	for authority, name := range kubeletFiles {
		path := filepath.Join(dir, "pki", name)
		data, err := atomicfile.ReadLimited(path, maxOwn)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return dropped, fmt.Errorf("look at kubelet's certificates: %w", err)
		}
		text, err := trust(authority)
		if err != nil {
			return dropped, err
		}
		signing, err := certificates(string(text))
		if err != nil {
			return dropped, fmt.Errorf("authority %s: %w", authority, err)
		}
		if own, err := certificates(string(data)); err == nil && own[0].CheckSignatureFrom(signing[0]) == nil {
			continue
		}
		gone := []string{path}
		if authority == "kubernetes-client.crt" { // It says that there is a certificate.
			gone = append(gone, filepath.Join(dir, "kubeconfig"))
		}
		for _, p := range gone {
			if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return dropped, fmt.Errorf("drop kubelet's certificates: %w", err)
			}
			dropped = append(dropped, p)
		}
	}
	return dropped, nil
}
