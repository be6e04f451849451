package browser

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Certificates is what a person has imported into the browser: a database of NSS, in which chromium looks whenever it
// needs to know. An import is seen by a browser that runs.
type Certificates struct{ dir string }

// NewCertificates makes the database of a home directory, which is empty.
func NewCertificates(home string) (Certificates, error) {
	// Where chromium looks on Linux (crypto/nss_util.cc).
	c := Certificates{filepath.Join(home, ".pki", "nssdb")}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return c, err
	}
	return c, c.run("certutil", "-N", "--empty-password")
}

// Trust imports a certificate in PEM as an authority for web sites, under a name.
func (c Certificates) Trust(name, file string) error {
	return c.run("certutil", "-A", "-n", name, "-t", "C,,", "-i", file)
}

// Import imports a file in the form PKCS #12 as a certificate of the person's own.
func (c Certificates) Import(file, password string) error {
	return c.run("pk12util", "-i", file, "-W", password, "-K", "")
}

func (c Certificates) run(program string, args ...string) error {
	text, err := exec.Command(program, append(args, "-d", "sql:"+c.dir)...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w (make deps installs it)", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, text)
	}
	return nil
}
