// The theme's search is a dialog without a name: who hears the page is told what it is.
document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
