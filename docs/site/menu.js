// On a narrow window the contents are folded until they are asked for.
if (matchMedia("(max-width: 60rem)").matches) document.querySelector(".menu").open = false;
