package app

import "strings"

// browsers and systems are what berth knows of the ways in which browsers name themselves: the
// first that occurs counts, for each also claims to be those below it.
var (
	browsers = [][2]string{
		{"Edg/", "Edge"},
		{"EdgA/", "Edge"},
		{"EdgiOS/", "Edge"},
		{"OPR/", "Opera"},
		{"SamsungBrowser/", "Samsung Internet"},
		{"Vivaldi/", "Vivaldi"},
		{"FxiOS/", "Firefox"},
		{"Firefox/", "Firefox"},
		{"CriOS/", "Chrome"},
		{"Chrome/", "Chrome"},
		{"Safari/", "Safari"},
		{"curl/", "curl"},
	}
	systems = [][2]string{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	}
)

// BrowserOf returns the name of a browser and of its system, by what the browser calls itself,
// without versions: an update changes neither. Each is "" when it is not known.
func BrowserOf(agent string) (browser, system string) {
	return nameIn(agent, browsers), nameIn(agent, systems)
}

func nameIn(agent string, known [][2]string) string {
	for _, pair := range known {
		if strings.Contains(agent, pair[0]) {
			return pair[1]
		}
	}
	return ""
}
