package programs

import (
	"regexp"
	"strings"
)

var (
	// licenceID is an identifier of SPDX 2.3, annex D: of its list, or a LicenseRef- of this document.
	licenceID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*\+?$`)
	// licenceWord takes an expression apart.
	licenceWord = regexp.MustCompile(`\(|\)|[^\s()]+`)
)

// maxLicence bounds an expression, in bytes.
const maxLicence = 500

// isLicence reports whether a text is an SPDX licence expression (SPDX 2.3, annex D) by its form. Which identifiers the
// list of SPDX has is not looked up.
func isLicence(text string) bool {
	words := licenceWord.FindAllString(text, -1)
	if len(text) > maxLicence || strings.ContainsAny(text, "\n\r") {
		return false
	}
	depth, operand := 0, true // whether a licence comes next
	for i, w := range words {
		after := i > 0 && words[i-1] == "WITH"
		switch {
		case w == "(":
			if !operand || after {
				return false
			}
			depth++
		case w == ")":
			if operand || depth == 0 {
				return false
			}
			depth--
		case w == "AND" || w == "OR" || w == "WITH":
			if operand || w == "WITH" && words[i-1] == ")" {
				return false
			}
			operand = true
		default:
			if !operand || !licenceID.MatchString(w) {
				return false
			}
			operand = false
		}
	}
	return !operand && depth == 0 && len(words) > 0
}
