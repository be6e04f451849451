package access

import (
	"crypto/x509"
	"encoding/base32"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"

	"software.sslmate.com/src/go-pkcs12"

	tree "spore/pki"
)

// passwordBytes is how much chance is in the password of a file for a browser: four groups of letters and digits.
const passwordBytes = 12

// forBrowser is a certificate with its key and the chain that leads to it in the form that browsers import (RFC 7292),
// and the password for that. What encrypts it is what current browsers and systems read: AES-256 with PBKDF2 (RFC 8018);
// Windows does since 10 1709, macOS since 13.
func forBrowser(made *tree.Admin, random io.Reader) (data []byte, password string, err error) {
	chain, err := certificates([]byte(made.Certificate))
	if err != nil {
		return nil, "", err
	}
	block, _ := pem.Decode([]byte(made.Key))
	if block == nil || len(chain) == 0 {
		return nil, "", errors.New("internal error: the certificate or its key is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, "", fmt.Errorf("internal error: the key that was made: %w", err)
	}
	chance := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, chance); err != nil {
		return nil, "", fmt.Errorf("make a password: %w", err)
	}
	letters := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(chance))
	password = strings.Join([]string{letters[:5], letters[5:10], letters[10:15], letters[15:]}, "-")
	if data, err = pkcs12.Modern2023.WithRand(random).Encode(key, chain[0], chain[1:], password); err != nil {
		return nil, "", fmt.Errorf("write the file for a browser: %w", err)
	}
	return data, password, nil
}

// certificates are those of a file of PEM.
func certificates(text []byte) (out []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("internal error: the certificate that was made: %w", err)
		}
		out = append(out, c)
	}
	return out, nil
}
