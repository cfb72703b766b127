package app

// ValidID reports whether s can name an application: 2 to 63 characters of
// a-z, 0-9 and '-', not starting or ending with '-', and not the word "all".
// Anything else never reaches a file name, a cgroup or a query.
func ValidID(s string) bool {
	if len(s) < 2 || len(s) > 63 || ID(s) == All || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
