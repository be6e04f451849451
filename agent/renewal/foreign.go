package renewal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"spore/storage/atomicfile"
)

// maxOwn bounds a certificate that a program keeps, in bytes.
const maxOwn = 1 << 20

// Own is a certificate that a program asks for and keeps by itself.
type Own struct {
	// Authority is the file of the authority that signs it, such as kubernetes-client.crt.
	Authority string
	// File has the certificate; With are files that say that there is one.
	File string
	With []string
}

// DropForeign removes those of a program's own certificates that the authority does not sign that signs now, so that it
// asks for others when it starts: it would keep them to their end, and the end of a rotation would cut it off. trust
// returns a file of paths.Trust. dropped lists what was removed.
func DropForeign(list []Own, trust func(name string) ([]byte, error)) (dropped []string, err error) {
	for _, c := range list {
		data, err := atomicfile.ReadLimited(c.File, maxOwn)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return dropped, fmt.Errorf("look at a program's own certificates: %w", err)
		}
		text, err := trust(c.Authority)
		if err != nil {
			return dropped, err
		}
		signing, err := certificates(string(text))
		if err != nil {
			return dropped, fmt.Errorf("authority %s: %w", c.Authority, err)
		}
		if own, err := certificates(string(data)); err == nil && own[0].CheckSignatureFrom(signing[0]) == nil {
			continue
		}
		for _, p := range append([]string{c.File}, c.With...) {
			if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return dropped, fmt.Errorf("drop a program's own certificates: %w", err)
			}
			dropped = append(dropped, p)
		}
	}
	return dropped, nil
}
